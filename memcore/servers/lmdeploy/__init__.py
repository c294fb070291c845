"""LMDeploy."""

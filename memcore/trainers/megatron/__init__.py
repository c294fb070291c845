"""Jobs of Megatron-Core: ranks, chunks of layers, optimizer states, schedules."""

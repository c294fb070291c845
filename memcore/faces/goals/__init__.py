"""What people want, in their own words: a sentence, the name of a task, a model or a GPU as it is written."""

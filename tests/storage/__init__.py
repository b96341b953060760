"""The SQL verbs and Job.objects: what each changes, what it refuses, what it leaves behind."""

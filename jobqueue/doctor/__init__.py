"""What `manage.py jobqueue_doctor` looks at: one concern a module, and all kinds of findings in catalogue.py."""

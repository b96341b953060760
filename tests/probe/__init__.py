"""The probe app: the handlers that tests run for real."""

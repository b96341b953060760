"""The admin in a real Chromium."""

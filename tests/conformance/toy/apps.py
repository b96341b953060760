from django.apps import AppConfig


class ToyConfig(AppConfig):
    name = "tests.conformance.toy"
    label = "toy"

"""URLs of the documents: the form, and a page for each submission."""

from django.urls import path

from . import views

app_name = "documents"

urlpatterns = [
    path("", views.submit_documents, name="submit"),
    path("submissions/<int:pk>/", views.show_submission, name="submission"),
]

"""URLs of the example project: the form for documents at the root, and the admin."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("project.documents.urls")),
]

"""Guards are load-bearing: take each guard out of its statement, and see which test notices (`make mutate`)."""

"""When things happen: each sensor is a pure decision and a thin shell around it."""

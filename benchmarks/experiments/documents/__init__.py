"""Learning with labels on documents (paper, section 5.2 and appendix A.2)."""

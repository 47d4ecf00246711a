"""Learning without labels (paper, section 5.1 and appendix A.1)."""

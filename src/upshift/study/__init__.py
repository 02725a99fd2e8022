"""Studies: variants spanned by factors, what each factor is worth, and what does not add up."""

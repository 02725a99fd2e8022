"""The rules: each looks at the evidence and says that it found something, that it found nothing, or that it could not see."""

"""What is fitted after training: confidence, word prior, actionness."""

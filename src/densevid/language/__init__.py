"""Rules about English captions: their words, whether they are sentences, and how they can be shortened."""

"""What a text is made of: fences, sentences, words, characters that can be seen; and when two are alike."""

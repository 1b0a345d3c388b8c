"""What a call is: the forward call it undoes, its module, what it launched or waited for."""

"""What `stepscope try` loads into the program: steps in turns, and facts about the program."""

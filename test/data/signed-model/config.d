sorts before a folder of its beginning, and behind it by parts

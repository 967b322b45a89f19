"""Sentences to measure on where none are given: everyday English; needs nothing."""

SENTENCES = (
    "Good morning.",
    "I am very hungry.",
    "Where is the nearest train station?",
    "Could you please close the window?",
    "He has been living in this city for ten years.",
    "My sister bought a new bicycle last week.",
    "What time does the last bus leave?",
    "I don't know what to say.",
    "She speaks three languages fluently.",
    "We have to finish this work before Friday.",
    "The children are playing in the garden.",
    "If it rains tomorrow, we will stay at home.",
    "Tom would like to learn German.",
    "This is the best book I have ever read.",
    "They were waiting for us at the airport.",
    "How much does this shirt cost?",
    "I forgot to lock the door again.",
    "The doctor told me to drink more water.",
    "Nobody knows where the key is.",
    "Thank you for helping me with my homework.",
    "Can you tell me how to get to the museum?",
    "It is too cold to swim in the lake.",
    "My grandfather used to tell us long stories.",
    "You should not believe everything he says.",
)
LANGUAGE = "en"

"""Load CTranslate2 models and Argos packages."""

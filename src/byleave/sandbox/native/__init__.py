"""The launcher in C, and where its binary is found or built (`build`)."""

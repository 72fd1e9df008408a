"""The way through which every live request passes: `Guard.authorize` decides, asks and records."""

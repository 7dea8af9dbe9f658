"""For those who write a backend or test against a log: a fixed world, sample logs, and the contract every log keeps."""

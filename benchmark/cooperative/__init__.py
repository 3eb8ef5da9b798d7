"""A language model beside a guarded camera: direct, run whole, and cut into quanta."""

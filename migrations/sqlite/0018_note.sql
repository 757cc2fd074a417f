-- What the agent said about its call, as JSON. NULL where it said nothing.
ALTER TABLE runs ADD COLUMN note TEXT;

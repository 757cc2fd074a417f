-- What the kernel keeps of the programs of a run, as JSON. NULL where that is nothing.
ALTER TABLE runs ADD COLUMN confinement TEXT;

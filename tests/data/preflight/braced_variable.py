# preflight: 3 $OUTPUT_DIR
import os
os.makedirs(${OUTPUT_DIR}, exist_ok=True)

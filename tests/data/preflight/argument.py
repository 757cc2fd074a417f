# preflight: 4 $DM_JSON
import json
# the gateway wrote this: $IN_A_COMMENT
message = json.loads($DM_JSON)

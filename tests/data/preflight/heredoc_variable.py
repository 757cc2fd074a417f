# preflight: 5 $API_TOKEN
import json

payload = json.loads("{}")
token = $API_TOKEN
print(payload, token)

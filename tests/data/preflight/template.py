# preflight: ok
from string import Template

MESSAGE = Template("Dear $NAME, you owe $AMOUNT")
SCRIPT = f"""
export TOKEN=$TOKEN
for x in ${{LIST[@]}}; do echo "$X_Y"; done
{MESSAGE.substitute(NAME="a", AMOUNT="$5")}
"""
print(SCRIPT)

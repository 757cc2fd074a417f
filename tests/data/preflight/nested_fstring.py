# preflight: ok
data = {"$KEY": {"$INNER": 1}}
print(f"{data["$KEY"]["$INNER"]}")
print(f"{"a" if data else f"{data['$KEY']}"} $OUTER")
print(f'{1:{">"}{10}} $HOME')

# preflight: 6 $COUNT
A = """
$NOT_THIS " and ' and \""" still
"""
B = f"{A}" 'x' r"\"
for i in range($COUNT):
    print(i)

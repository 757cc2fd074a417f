# preflight: ok
x = f"{ $HOME
y = """ $HOME

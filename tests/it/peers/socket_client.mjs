// Speaks to the approvals socket with the product's own client. Arguments: the module, the function, the parameters.
const [module, name, params] = process.argv.slice(2);
const found = (await import(module))[name];
console.log(JSON.stringify(await found(JSON.parse(params))));
process.exit(0);

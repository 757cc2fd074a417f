// preflight: 3 $USER_NAME
const greeting = `dear $USER_NAME`;
console.log(`${greeting}, ${$USER_NAME}`);

// preflight: 3 $ENDPOINT
const https = require('https');
https.get($ENDPOINT, (answer) => answer.resume());

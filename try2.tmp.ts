import { crossValidate, fitCosts, predict } from './bench/scale/fit.ts';
import { readFileSync } from 'node:fs';
const m = JSON.parse(readFileSync(process.argv[2] ?? '/tmp/samples.json','utf8'));
const c = fitCosts(m.samples, m.combineMsPerByte); console.log(c);
for (const p of crossValidate(m.samples,m.combineMsPerByte)) console.log(p.n,p.bytes,p.ms.toFixed(1),p.predictedMs.toFixed(1),(100*p.error).toFixed(0)+'%', (100*(predict(p.n,p.bytes,c)/p.ms-1)).toFixed(0)+'%');

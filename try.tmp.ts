import { simulateGrowth, crossovers, quickestOf } from './bench/scale/growth.ts';
import { fitCosts } from './bench/scale/fit.ts';
import { readFileSync } from 'node:fs';
const m = JSON.parse(readFileSync('/tmp/samples.json','utf8'));
const c = fitCosts(m.samples, m.combineMsPerByte);
const t=performance.now();
const rows = simulateGrowth(c, [2,4,8,12,16,24,32,48,64,128,256,1024], (l)=>console.log(l,((performance.now()-t)/1000).toFixed(1)));
for (const r of rows) console.log(r.network,r.bytes,r.n,Object.entries(r.ms).map(([k,v])=>`${k} ${v===null?'-':Number(v).toFixed(0)}`).join(' '), quickestOf(r).algorithm, quickestOf(r).ringRatio.toFixed(2));
console.log(crossovers(rows), (performance.now()-t)/1000);

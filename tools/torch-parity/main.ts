/** The process of `npm run torch-parity`. */
import { runProcess } from '../../launcher/process.ts';
import { runTorchParity } from './cli.ts';

await runProcess('torch-parity', runTorchParity);

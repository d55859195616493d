/** Starts the command line of the benchmarks in this process. */
import { runProcess } from '../../launcher/process.ts';
import { runBench } from './cli.ts';

await runProcess('bench', runBench);

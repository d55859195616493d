/** The launcher's entry point. */
import { runCli } from './cli.ts';
import { runProcess } from './process.ts';

await runProcess('peergrad', runCli);

/** The process of the tools. */
import { runProcess } from '../launcher/process.ts';
import { runTools } from './cli.ts';

await runProcess('tools', runTools);

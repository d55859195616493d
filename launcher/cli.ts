/** The command line: what can be asked. */
import { Argument, type Command, Option } from 'commander';
import { MAX_WORLD_SIZE } from '../src/protocol/scalars.ts';
import { example, EXAMPLE_NAMES, type ExampleOptions } from './commands/example.ts';
import { addBackendOption, addBrowserOptions, RUN_TIMEOUT_S } from './options/browserOptions.ts';
import { addIceOptions, collect } from './options/iceOptions.ts';
import type { Io } from './io.ts';
import { inJsonLines } from './output/jsonLines.ts';
import { addJobOptions, addLengthOptions, nodes, wholeNumber } from './options/jobOptions.ts';
import { join, type JoinOptions } from './commands/join.ts';
import type { Environment } from './options/placement.ts';
import { createProgram, runProgram } from './options/program.ts';
import { run, type RunOptions } from './commands/run.ts';
import { serve, type ServeOptions } from './commands/serve.ts';

/** Seconds an example may take: the longest takes about ten on two slow cores. */
const EXAMPLE_TIMEOUT_S = 5 * 60;

const RUN_ENVIRONMENT = `
Environment, as torch.distributed has it; an option that says otherwise is refused:
  NODE_RANK, MASTER_ADDR, MASTER_PORT   where the options of these names are left out
  WORLD_SIZE                            all ranks: --nnodes times --nproc-per-node
  RANK                                  without --nnodes: this process is one tab, with this rank of WORLD_SIZE,
                                        and the process with RANK 0 serves
  LOCAL_RANK                            checked, and no more: local ranks are the tabs of a browser
`;

/** Restarts that can be asked for: more are a loop. */
const MAX_RESTARTS = 1000;
const MAX_PORT = 65535;
const JSON_LINES = '--json-lines';

/** Runs one command line (without `node` and the script); see {@link runProgram}. */
export function runCli(argv: readonly string[], io: Io, env: Environment = process.env): Promise<number> {
  // Before it is parsed: what is wrong with the line is a line of JSON, too.
  const voice = argv.includes(JSON_LINES) ? inJsonLines(io) : io;
  return runProgram(buildProgram(voice, env), argv, voice);
}

function buildProgram(io: Io, env: Environment): Command {
  const program = createProgram(
    'peergrad',
    'Browser tabs as one training job: start a server, or run and join rooms with headless tabs.',
    io,
  );

  const serveCommand = program
    .command('serve')
    .addArgument(jobFile())
    .description('serve the page and introduce tabs to each other, until Ctrl-C')
    .option('--port <n>', 'port to listen on', wholeNumber(0, MAX_PORT), 8080)
    .option('--host <address>', 'address to listen on (default: 127.0.0.1, with https 0.0.0.0)')
    .option('--https', 'https with a self-signed certificate')
    .option('--cert <file>', 'certificate for https, PEM')
    .option('--key <file>', "the certificate's key, PEM")
    .option(
      '--origin <url>',
      'pages of another origin may connect, e.g. https://class.example (may be repeated)',
      collect,
      [],
    )
    .option('--trust-proxy', 'a reverse proxy stands before this server: believe its X-Forwarded-For')
    .addOption(
      new Option('--metrics-token <token>', 'lets other machines read /metrics with this bearer token').env(
        'PEERGRAD_METRICS_TOKEN',
      ),
    )
    .option('--start-at <n>', 'open a room that starts by itself when n tabs are ready', wholeNumber(1, MAX_WORLD_SIZE))
    .option('--nnodes <min:max>', 'fewest and most tabs of that room; others come and go (with a job: 1:64)', nodes)
    .addOption(
      new Option('--log <level>', 'what the server logs on stderr')
        .choices(['fatal', 'error', 'warn', 'info', 'debug', 'silent'])
        .default('warn'),
    );
  addLengthOptions(addJobOptions(addIceOptions(serveCommand))).action(
    (file: string | undefined, options: ServeOptions) =>
      serve({ ...options, ...(file !== undefined && { file }) }, io, env),
  );

  const runCommand = program
    .command('run')
    .addArgument(jobFile())
    .description('train with N headless tabs on this machine, or on each of several, and say how it went')
    .option('--tabs <n>', 'number of tabs, each a rank (default: 4)', wholeNumber(1, MAX_WORLD_SIZE))
    .option('--nproc-per-node <n>', "the same, by torchrun's name", wholeNumber(1, MAX_WORLD_SIZE))
    .option('--nnodes <n>', 'machines, each with as many tabs (default: 1); MIN:MAX: they may come and go', nodes)
    .option('--node-rank <i>', 'which of them this is, from 0; node 0 serves', wholeNumber(0, MAX_WORLD_SIZE - 1))
    .option('--master-addr <host>', "node 0's address for the others; https unless it is a loopback")
    .option('--master-port <p>', "node 0's port (default: 29500 where there are others)", wholeNumber(1, MAX_PORT))
    .option('--rdzv-id <text>', "the run's name, the same on every machine (default: none)")
    .option('--max-restarts <n>', 'start all of it again so many times where it fails', wholeNumber(0, MAX_RESTARTS), 0)
    .option('--json', 'print the result as one JSON object, last on stdout')
    .option(JSON_LINES, 'log as JSON lines on stderr, an event a line')
    .option('--headed', 'show the browser')
    .option('--screenshot <file>', "write a PNG of rank 0's page past the middle of the run")
    .option('--out <file>', 'write the model at the end: .safetensors, .zip (TensorFlow.js), .weights.h5 (Keras 3)')
    .option('--checkpoint <file>', 'write a checkpoint whenever ranks are compared, and on Ctrl-C')
    .option('--resume <file>', 'go on from a checkpoint, with as many tabs as there are now')
    .option('--from <file>', 'begin with the weights of a file, as --out writes them');
  addBrowserOptions(addBackendOption(runCommand), RUN_TIMEOUT_S);
  addLengthOptions(addJobOptions(addIceOptions(runCommand)))
    .addHelpText('after', RUN_ENVIRONMENT)
    .action((file: string | undefined, options: RunOptions) =>
      run({ ...options, ...(file !== undefined && { file }) }, io, env),
    );

  const joinCommand = program
    .command('join')
    .argument('<url>', "the room's address, e.g. https://192.168.1.5:8080/#K7F3QX")
    .description(
      'join a room with N headless tabs, and stay until its run has ended; tabs come back where they are lost, and wait for a server ' +
        'or a room that is not there yet; 1 tab asks for the rank RANK, if set',
    )
    .option('--tabs <n>', 'number of tabs', wholeNumber(1, MAX_WORLD_SIZE), 1)
    .option('--name <name>', "the tabs' name", 'tab')
    .option('--data <path>', "a file or folder for these tabs to learn from, where a room's tabs bring theirs")
    .option('--stay', 'stay for the runs that follow, too, until Ctrl-C or until the host sends the tabs out')
    .option(JSON_LINES, 'log as JSON lines on stderr, an event a line');
  addBrowserOptions(addBackendOption(joinCommand), null).action((url: string, options: JoinOptions) =>
    join(url, options, io, env),
  );

  const exampleCommand = program
    .command('example')
    .addArgument(new Argument('[name]', 'which one').choices(EXAMPLE_NAMES))
    .description("run an example in headless tabs and print every rank's lines; without a name, list the examples")
    .option('--tabs <n>', "number of tabs, each a rank (default: the example's)", wholeNumber(1, MAX_WORLD_SIZE))
    .option('--headed', 'show the browser');
  addBrowserOptions(exampleCommand, EXAMPLE_TIMEOUT_S).action((name: string | undefined, options: ExampleOptions) =>
    example(name, options, io),
  );
  return program;
}

function jobFile(): Argument {
  return new Argument('[job.json]', 'a job file, as the page saves them (docs/JOBS.md); options win over what it says');
}

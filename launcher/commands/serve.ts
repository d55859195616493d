/** `peergrad serve`: runs the page and the signaling server until Ctrl-C. */
import { MAX_WORLD_SIZE } from '../../src/protocol/scalars.ts';
import { type NodeCountRange } from '../../src/protocol/room.ts';
import { UsageError } from '../../src/util/errors.ts';
import { fingerprint, readCertificate, selfSignedCertificate, type Certificate } from '../../signaling/http/tls.ts';
import type { SignalingOptions } from '../../signaling/index.ts';
import { DIST, ensureBuilt } from '../build.ts';
import type { Environment } from '../options/placement.ts';
import { connectionsOf, type ConnectionFlags } from '../options/connectionOptions.ts';
import { interrupted, type Io } from '../io.ts';
import { inviteOthers } from '../output/invitation.ts';
import { checkData, type JobOptions, type LengthOptions, resolveJob, describesJob } from '../options/jobOptions.ts';

export interface ServeOptions extends JobOptions, LengthOptions, ConnectionFlags {
  port: number;
  host?: string;
  https?: true;
  cert?: string;
  key?: string;
  origin: string[];
  trustProxy?: true;
  metricsToken?: string;
  startAt?: number;
  nnodes?: number | NodeCountRange;
  log: NonNullable<SignalingOptions['logLevel']>;
}

export async function serve(options: ServeOptions, io: Io, env: Environment): Promise<void> {
  const connections = connectionsOf(options);
  const startAt = options.startAt ?? null;
  const room = startAt !== null || describesJob(options) ? await resolveJob(options, options) : null;
  // The room is elastic if `--nnodes` is a range, or if `--nnodes` is not set and options or a job
  // file define the job. All other rooms have a fixed world, as programs with their own code
  // expect.
  const range = typeof options.nnodes === 'object' ? options.nnodes : null;
  const nodes =
    range ?? (describesJob(options) && options.nnodes === undefined ? { min: 1, max: MAX_WORLD_SIZE } : null);
  const served = room === null ? await servedData(options.data) : room.served;
  const tls = await chooseCertificate(options);
  const { port, log: logLevel, origin: origins, trustProxy = false, metricsToken = null } = options;
  // With `--trust-proxy`, only a proxy on this machine can connect by default: a client that
  // bypasses the proxy could claim any address.
  const { host = trustProxy ? '127.0.0.1' : '0.0.0.0' } = options;
  const secret = env['PEERGRAD_SECRET'] || null;
  // The server's packages load slowly, so they are imported after the arguments are checked.
  const { startSignaling } = await import('../../signaling/index.ts');
  // The server listens before the build, so that an error about a port in use appears immediately.
  const server = await startSignaling({
    host,
    port,
    tls,
    dist: DIST,
    data: served,
    ...connections,
    origins,
    trustProxy,
    metricsToken,
    logLevel,
    secret,
    redisUrl: env['REDIS_URL'] || null,
  });
  try {
    await ensureBuilt(io);
    const hash = room === null ? '' : `#${await server.openRoom({ job: room.job, startAt, nodes })}`;
    const links = server.urls.map((url) => `${url}/${hash}`);
    for (const link of links) io.out(link);
    if (tls !== null) io.err(`Certificate, SHA-256: ${fingerprint(tls)}`);
    // Behind a proxy, people open the page at the proxy's address.
    if (!trustProxy) for (const line of inviteOthers(links, io.terminal !== null)) io.err(line);
    io.err('Serving. Press Ctrl-C to stop.');
    await interrupted(io);
  } finally {
    await server.close();
  }
}

async function servedData(data: string | undefined): Promise<string | null> {
  return data === undefined ? null : checkData(data);
}

async function chooseCertificate({ https, cert, key }: ServeOptions): Promise<Certificate | null> {
  if ((cert === undefined) !== (key === undefined))
    throw new UsageError('Only one of --cert and --key is set. Pass both.');
  if (cert !== undefined && key !== undefined) return readCertificate(cert, key);
  return https === true ? selfSignedCertificate() : null;
}

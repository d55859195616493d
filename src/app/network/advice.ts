/** Draws the conclusion from the results of a network check. */
import type { NetworkAdvice, NetworkReport, NetworkCheckPairReport } from '../../protocol/networkCheck.ts';

const isRunning = ({ verdict }: { verdict: string }): boolean => verdict === 'running';
const isDirect = ({ direct }: NetworkCheckPairReport): boolean => direct.verdict === 'works';
const isServed = ({ server }: NetworkCheckPairReport): boolean => server.verdict === 'works';

export function networkAdviceFor(report: NetworkReport): NetworkAdvice {
  const { socket, addresses, stun, turn, pairs } = report;
  if (socket.verdict === 'fails') return socket.about === 'refused' ? 'refused' : 'unreachable';
  const checks = [socket, addresses, stun, turn, ...pairs.flatMap(({ direct, server }) => [direct, server])];
  if (checks.some(isRunning)) return 'wait';
  if (pairs.length === 0) return 'alone';
  const others = pairs.filter(({ isSameBrowser }) => !isSameBrowser);
  if (others.length === 0) return pairs.every(isServed) ? 'one-browser' : 'one-browser-only';
  const unlinked = others.filter((pair) => !isDirect(pair) && !isServed(pair));
  if (unlinked.length > 0) {
    return unlinked.every(({ server }) => server.verdict === 'not-tried') ? 'off' : 'none';
  }
  if (others.every(isDirect)) return others.some(({ direct }) => isRelayed(direct)) ? 'relayed' : 'direct';
  if (others.some(isDirect)) return 'mixed';
  return others.every(({ direct }) => direct.verdict === 'not-tried' && direct.about === 'only-server')
    ? 'only-server'
    : 'isolated';
}

function isRelayed(direct: NetworkCheckPairReport['direct']): boolean {
  return direct.verdict === 'works' && direct.about === 'relayed';
}

/** Bytes per second of the slowest link through the server; `null` if none was measured. */
export function slowestServerLinkRate({ pairs }: NetworkReport): number | null {
  const rates = pairs.flatMap(({ server }) => (server.verdict === 'works' ? [server.bytesPerSecond ?? 0] : []));
  return rates.length === 0 ? null : Math.min(...rates);
}

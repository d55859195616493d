/** Asks the browser for the addresses at which this tab may be reached (ICE candidates). */
import type { IceServer } from '../../protocol/control.ts';
import type { Clock } from '../../util/clock.ts';
import { createDeferred } from '../../util/deferred.ts';

/**
 * `host`: an address of this machine. `srflx`: one that STUN reports. `relay`: one of a TURN
 * server.
 */
type CandidateType = 'host' | 'srflx' | 'relay';

/**
 * Resolves with the first address of the type, or with `null` if the browser finds none within
 * `ms`.
 *
 * @throws (rejects) if the browser cannot connect.
 */
export async function findIceAddress(
  type: CandidateType,
  iceServers: readonly IceServer[],
  ms: number,
  clock: Clock,
): Promise<string | null> {
  const connection = new RTCPeerConnection({ iceServers: iceServers as RTCIceServer[] });
  const found = createDeferred<string | null>();
  const cancel = clock.after(ms, () => found.resolve(null));
  try {
    connection.addEventListener('icecandidate', ({ candidate }) => {
      if (candidate === null) return found.resolve(null);
      // foundation, component, transport, priority, address, port, "typ", type (RFC 8839)
      const [, , , , address, , , kind] = candidate.candidate.split(' ');
      if (kind === type) found.resolve(address!);
    });
    connection.createDataChannel('check');
    await connection.setLocalDescription(await connection.createOffer());
    return await found.promise;
  } finally {
    cancel();
    connection.close();
  }
}

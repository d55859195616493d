/** The network check of this page. */
import { connectPeer } from '../../transport/peerLink.ts';
import { connectThroughServer } from '../../transport/serverLink.ts';
import { ThreadActivity } from '../../util/activity.ts';
import { systemClock } from '../../util/clock.ts';
import { browserId } from '../membership/browserId.ts';
import { createPulseSocketOpener } from '../membership/pulseSocket.ts';
import { findIceAddress } from './candidates.ts';
import { NETWORK_CHECK_TIMEOUT_MS, NetworkCheck, type NetworkCheckOptions } from './networkCheck.ts';

export function createPageNetworkCheck(
  options: Pick<NetworkCheckOptions, 'server' | 'name' | 'onreport'>,
): NetworkCheck {
  return new NetworkCheck({
    ...options,
    isSecure: isSecureContext,
    clock: systemClock,
    today: Date.now,
    // Timers of a hidden page are slow, so a worker sends the heartbeats.
    openSocket: createPulseSocketOpener(new ThreadActivity(systemClock), systemClock),
    browserId,
    findAddress:
      typeof RTCPeerConnection === 'undefined'
        ? null
        : (type, iceServers) => findIceAddress(type, iceServers, NETWORK_CHECK_TIMEOUT_MS, systemClock),
    connectPeer,
    connectServer: (attempt) => connectThroughServer({ ...attempt, openSocket: (url) => new WebSocket(url), crypto }),
  });
}

/** A data channel for tests, whose state and unsent bytes a test sets. */
export class FakeChannel {
  readyState: RTCDataChannelState = 'connecting';
  bufferedAmount = 0;
  bufferedAmountLowThreshold = 0;
  binaryType: BinaryType = 'blob';
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onbufferedamountlow: (() => void) | null = null;
  onerror: ((event: { error: Error }) => void) | null = null;
  onclose: (() => void) | null = null;
  readonly sent: ArrayBuffer[] = [];

  send(data: ArrayBuffer): void {
    this.sent.push(data);
    this.bufferedAmount += data.byteLength;
  }

  /** Closes the channel without an event. */
  close(): void {
    this.readyState = 'closed';
  }

  open(): void {
    this.readyState = 'open';
    this.onopen?.();
  }

  /** Leaves this number of bytes unsent. */
  drainTo(bytes: number): void {
    this.bufferedAmount = bytes;
    if (bytes <= this.bufferedAmountLowThreshold) this.onbufferedamountlow?.();
  }

  /** This object as the type that production code takes. It has the parts that links use. */
  get asChannel(): RTCDataChannel {
    return this as unknown as RTCDataChannel;
  }
}

/** The members of RTCDataChannel that a link uses. `serverLinkChannel.ts` implements them, too. */
export interface FrameChannel {
  binaryType: BinaryType;
  readonly readyState: RTCDataChannelState;
  /** Bytes that were passed to `send` and have not left this machine. */
  readonly bufferedAmount: number;
  bufferedAmountLowThreshold: number;
  onopen: ((event: Event) => void) | null;
  onmessage: ((event: MessageEvent<unknown>) => void) | null;
  onbufferedamountlow: ((event: Event) => void) | null;
  onerror: ((event: RTCErrorEvent) => void) | null;
  onclose: ((event: Event) => void) | null;
  /** Takes ownership of `data`. */
  send(data: ArrayBuffer): void;
  close(): void;
}

"""Ordered async handling: what `arcp_client.rx` makes public, split by the state each part owns.

``delivery`` tokens · ``buffer`` counts and bounds · ``channel`` the source in front · ``sink`` what
every consumer shares · ``handling`` how handlers run · ``serial`` one lane · ``keyed`` a lane a
key · ``stream`` iterators.
"""

"""Embeds many images into shards, on one machine or with Apache Beam."""
